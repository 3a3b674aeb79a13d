#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace ps::e2e {

/// Puts a small file system (tmpfs) at a path, seen by this process and its children alone. Needs
/// root; the failure says what is missing. `options` are those of mount, "size=256k".
testing::AssertionResult MountSmallDisk(const std::string& path, const std::string& options);

/// A network for this process and its children alone: only a loopback that can be cut. Needs root.
testing::AssertionResult UnshareNetwork();

/// Drops every packet of an unshared network while it lives. Connections stay open.
class NetworkCut {
 public:
  NetworkCut();
  NetworkCut(const NetworkCut&) = delete;
  NetworkCut& operator=(const NetworkCut&) = delete;
  ~NetworkCut();
};

/// Whether links of an unshared network can be cut one by one (LinkCut); prepares that. Needs the
/// program ip.
testing::AssertionResult PrepareLinkCuts();

/// Drops what goes to whoever listens at a port, or what comes from there, while it lives; the
/// other direction stays. Requires: PrepareLinkCuts.
class LinkCut {
 public:
  enum class Way : uint8_t { kTo, kFrom };

  LinkCut(uint16_t port, Way way);
  LinkCut(const LinkCut&) = delete;
  LinkCut& operator=(const LinkCut&) = delete;
  ~LinkCut();
};

/// A file that takes all room of its file system while it lives.
class DiskFiller {
 public:
  explicit DiskFiller(std::string path);
  DiskFiller(const DiskFiller&) = delete;
  DiskFiller& operator=(const DiskFiller&) = delete;
  ~DiskFiller();

 private:
  const std::string path_;
};

/// Stops a process, as a machine that hangs does, while it lives. Nothing for a pid of 0.
class Freeze {
 public:
  explicit Freeze(int64_t pid);
  Freeze(const Freeze&) = delete;
  Freeze& operator=(const Freeze&) = delete;
  ~Freeze();

 private:
  const int64_t pid_;
};

}  // namespace ps::e2e
