"""What measured use suggests: own or rent, spot, right-sizing."""
