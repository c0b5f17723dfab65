"""What runs inside a sandbox, on the image's own Python: it imports nothing of this project from elsewhere."""
