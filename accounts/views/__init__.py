"""Pages: signing in and out, the first password change."""
