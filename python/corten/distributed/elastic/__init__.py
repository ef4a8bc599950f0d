"""Starting the processes of a program, watching them, and starting them again when one fails."""
