"""Token ids as text: whose tokens they are is read from files on this machine, never downloaded."""

from wmo_distill.decoding.doubt import doubt
from wmo_distill.decoding.load import load
from wmo_distill.decoding.pieces import Decoder, Kind, Piece
from wmo_distill.visible import visible

__all__ = ["Decoder", "Kind", "Piece", "doubt", "load", "visible"]
