"""Forms that change what people set: fields, actions, previews and the history of changes."""
