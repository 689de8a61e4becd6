"""What the index comes to, for people who look: maps, numbers and states, as the page and notebooks show them."""
