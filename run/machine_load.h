#pragma once

#include <cstdint>
#include <string_view>

namespace ps::run {

/// Time that a machine's processors spent since it started, in the kernel's ticks.
struct ProcessorTime {
  uint64_t busy = 0;
  uint64_t total = 0;

  friend bool operator==(const ProcessorTime&, const ProcessorTime&) = default;
};

/// The "cpu" line of /proc/stat; zeros when it can't be understood. Time that a hypervisor gave to
/// others counts as busy, because processes here had to wait for it. Waiting for disks counts as
/// idle.
ProcessorTime ParseProcessorTime(std::string_view stat);

/// This machine's, now.
ProcessorTime ReadProcessorTime();

/// Share of the time between the two in which processors were busy, 0 to 1; 0 when none passed.
double BusyShare(const ProcessorTime& from, const ProcessorTime& to);

}  // namespace ps::run
