// What of a page cannot be read, measured from layout boxes, and which pictures have no name: sentences, none for a good page.
// On a screen, text that a reader can scroll to is readable; on paper nothing can be scrolled.
(how) => {
  const SLACK = 1.5, SMALLEST = 7.9;
  const leftward = getComputedStyle(document.documentElement).direction === 'rtl';
  const found = [];
  const say = (what, text) => found.push(`${what}: ${JSON.stringify(text.trim().slice(0, 80))}`);
  for (const details of document.querySelectorAll('details')) details.open = true;

  // Each element is measured once: pages have thousands, and most lie in the same few.
  const known = new Map();
  const measured = (element) => {
    let facts = known.get(element);
    if (!facts) {
      const style = getComputedStyle(element), box = element.getBoundingClientRect(), overflow = style.overflowX + style.overflowY;
      const hidden = (box.width <= 1.01 && box.height <= 1.01 && overflow !== 'visiblevisible') || style.clipPath === 'inset(50%)'
        || (/absolute|fixed/.test(style.position) && (leftward ? box.left >= innerWidth : box.right <= 0)); // waits beside the window until it is asked for
      const above = element.parentElement && element !== document.body ? measured(element.parentElement) : null;
      facts = {
        element, box, above, size: parseFloat(style.fontSize), flat: style.display === 'inline' || style.display === 'contents',
        scrolls: /auto|scroll/.test(overflow), clips: /hidden|clip|auto|scroll/.test(overflow), forReadersOnly: hidden || Boolean(above?.forReadersOnly),
        boxed: parseFloat(style.borderRightWidth) > 0 || !/rgba\(0, 0, 0, 0\)|transparent/.test(style.backgroundColor),
      };
      known.set(element, facts);
    }
    return facts;
  };
  const shown = (element) => element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });

  if (document.documentElement.scrollWidth > innerWidth + SLACK)
    found.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);

  const range = document.createRange();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const inside = (rect, box) =>
    rect.left >= box.left - SLACK && rect.right <= box.right + SLACK && rect.top >= box.top - SLACK && rect.bottom <= box.bottom + SLACK;
  for (let node; (node = texts.nextNode());) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('svg, script, style, title, option, noscript') || !shown(element)) continue;
    const own = measured(element);
    if (own.forReadersOnly) continue;
    range.selectNodeContents(node);
    if (own.size < SMALLEST) say(`letters of ${own.size.toFixed(1)} pixels`, node.data);
    for (const rect of range.getClientRects()) {
      if (rect.width < 0.5) continue;
      let ended = false;
      for (let at = own; at && at.element !== document.body && !ended; at = at.above) {
        if (at.flat) continue;
        const name = `<${at.element.localName} class="${at.element.className}">`;
        if (at.scrolls && !how.print) {
          const moves = at.element.scrollWidth > at.element.clientWidth + 1;
          if (moves && at.element.tabIndex < 0 && !at.element.querySelector('a, button, input')) say('cannot be scrolled by keyboard', node.data);
          ended = true;
        } else if (at.clips && !inside(rect, at.box)) {
          say(`cut by ${name}`, node.data);
          ended = true;
        } else if (at.boxed && (rect.right > at.box.right + SLACK || rect.left < at.box.left - SLACK)) {
          say(`sticks out of ${name}`, node.data);
          ended = true;
        }
      }
      if (!ended && (rect.right > innerWidth + SLACK || rect.left < -SLACK)) say('lies beside the window', node.data);
    }
  }

  // Corners of a text as it lies on the screen, turned or not.
  const corners = (text) => {
    const box = text.getBBox(), to = text.getScreenCTM();
    return [[box.x, box.y], [box.x + box.width, box.y], [box.x + box.width, box.y + box.height], [box.x, box.y + box.height]]
      .map(([x, y]) => ({ x: to.a * x + to.c * y + to.e, y: to.b * x + to.d * y + to.f }));
  };
  // How deep two convex quadrilaterals lie in each other: the least overlap along the normals of their sides.
  const depth = (one, other) => {
    let least = Infinity;
    for (const corner of [one, other]) for (let side = 0; side < 2; side++) {
      const x = corner[side + 1].y - corner[side].y, y = corner[side].x - corner[side + 1].x, length = Math.hypot(x, y) || 1;
      const along = (points) => points.map((point) => (point.x * x + point.y * y) / length);
      const a = along(one), b = along(other);
      least = Math.min(least, Math.min(Math.max(...a), Math.max(...b)) - Math.max(Math.min(...a), Math.min(...b)));
    }
    return least;
  };
  for (const svg of document.querySelectorAll('svg')) {
    if (svg.parentElement.closest('svg') || !shown(svg)) continue;
    const frame = svg.getBoundingClientRect(), laid = [];
    const cuts = getComputedStyle(svg).overflow !== 'visible';
    for (const text of svg.querySelectorAll('text')) {
      if (!text.textContent.trim() || !shown(text)) continue;
      const matrix = text.getScreenCTM(), size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(matrix.a, matrix.b);
      if (size < SMALLEST) say(`letters of ${size.toFixed(1)} pixels in a picture`, text.textContent);
      const quad = corners(text);
      const left = Math.min(...quad.map((p) => p.x)), right = Math.max(...quad.map((p) => p.x));
      const top = Math.min(...quad.map((p) => p.y)), bottom = Math.max(...quad.map((p) => p.y));
      const sideSlack = 2 * SLACK; // a line's box is higher than its letters
      if (cuts && (left < frame.left - SLACK || right > frame.right + SLACK || top < frame.top - sideSlack || bottom > frame.bottom + sideSlack)) say('cut by its picture', text.textContent);
      laid.push({ quad, left, right, top, bottom, said: text.textContent });
    }
    laid.sort((one, other) => one.left - other.left);
    for (let i = 0; i < laid.length; i++) for (let j = i + 1; j < laid.length && laid[j].left < laid[i].right; j++) {
      const one = laid[i], other = laid[j];
      if (other.top < one.bottom && one.top < other.bottom && depth(one.quad, other.quad) > 3) say(`lies on ${JSON.stringify(other.said.slice(0, 30))}`, one.said);
    }
  }

  const name = (picture) => picture.getAttribute('aria-label') || picture.getAttribute('alt')
    || document.getElementById(picture.getAttribute('aria-labelledby'))?.textContent || picture.querySelector(':scope > title')?.textContent;
  const unnamed = [...document.querySelectorAll('svg, img, canvas')]
    .filter((each) => !each.closest('[aria-hidden=true]') && !each.parentElement.closest('svg') && !name(each)?.trim())
    .map((each) => each.outerHTML.slice(0, 120));
  return { unreadable: [...new Set(found)].slice(0, 40), unnamed };
}
