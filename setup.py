"""Packages are found, not typed: the folders at the top ship as `understudy.flows`, `understudy.tasks` and so on."""

from setuptools import find_packages, setup

ROOMS = ("flows", "tasks", "pipelines", "deployments")

found = find_packages(include=["understudy*", *(f"{room}*" for room in ROOMS)])
setup(packages=[name if name.split(".")[0] == "understudy" else f"understudy.{name}" for name in found])
