"""One module for each format of the weekly report; format_registry finds them."""
