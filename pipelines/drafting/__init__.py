"""A spec drafted from what a catalogue or a contract declares, without a row."""
