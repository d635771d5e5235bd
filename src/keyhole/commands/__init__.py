"""One file for each command. They parse and print; they compute nothing."""
