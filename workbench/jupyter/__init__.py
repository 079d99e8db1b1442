"""The workbench inside Jupyter; the only folder that imports Jupyter packages."""
