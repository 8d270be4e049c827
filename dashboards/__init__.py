"""The web pages: Dash on the API's own app, speaking to it through the client only."""
