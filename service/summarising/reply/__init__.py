"""What a summariser's reply says."""
