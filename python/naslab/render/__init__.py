"""Results as people see them: the terminal, the HTML report, the web pages."""
