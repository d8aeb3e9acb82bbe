"""What a person gets: make, the image, README, a project and its updates."""
