#pragma once

#include <string>
#include <vector>

namespace ps {

/// The files and directories that this process has synced, in order. A program that links this
/// calls an fsync which does what the C library's does and keeps this record. Thread: any.
std::vector<std::string> Synced();

/// Begins the record anew. Thread: any.
void ForgetSynced();

}  // namespace ps
