"""Results as text for people: one table renderer, one module a result"""
