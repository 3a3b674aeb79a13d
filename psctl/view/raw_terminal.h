#pragma once

namespace ps::psctl {

/// While it lives, the terminal shows its other screen, without a cursor, and its keys come at once
/// and are not echoed. Whatever ends the process gives the terminal back first, by a handler: a
/// signal, Ctrl-C twice, a crash; only SIGKILL can't be caught. A stop (Ctrl-Z) gives it back, too,
/// and it is taken again when the process goes on in the foreground. At most one lives at a time,
/// and nothing else handles these signals meanwhile.
///
/// Whoever changes a terminal's settings does it by this class.
class RawTerminal {
 public:
  RawTerminal();
  ~RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

  /// SIGINT or SIGTERM has come: the owner is to end. The next one ends the process.
  bool IsInterrupted() const;
};

}  // namespace ps::psctl
