"""What the SQL tools share: what a task asks for, and the shape of what it gives back."""
