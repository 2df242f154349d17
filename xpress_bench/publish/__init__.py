"""A summary as a page: in the terminal (`text`) and in Markdown (`markdown`). No torch."""
