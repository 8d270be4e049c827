"""How messages leave: HTTP posts, mail servers, and which destinations are allowed."""
