"""What a release can show to an auditor, a registry, a catalogue or a contract checker, from its manifest alone."""
