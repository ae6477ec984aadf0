"""The SQL of Penstock. README.md describes the folders and the template language."""
