"""What the web page shows, as functions of a bundle and its selector, without HTTP."""
