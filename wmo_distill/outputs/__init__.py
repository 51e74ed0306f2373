"""Directories that commands write: one writer at a time, numbered whole files, the manifest last"""
