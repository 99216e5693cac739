// Tables that are wider than the screen can be scrolled with the keyboard too.
document$.subscribe(() => requestAnimationFrame(() => {
  for (const each of document.querySelectorAll(".md-typeset__scrollwrap")) each.tabIndex = 0;
}));
