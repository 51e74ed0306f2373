"""The web application: a dataset's episodes, token by token, for a browser on this machine."""
