"""Pages of the metal, for administrators."""
