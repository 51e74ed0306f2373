"""What all tests share: the settings of the property tests, and signals as a terminal has them."""

import signal

from tests.effort import load_profile

load_profile()

# A shell starts background jobs, and `nohup` its command, with signals ignored, and processes that
# a test starts would inherit that.
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        at_first = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, at_first)
