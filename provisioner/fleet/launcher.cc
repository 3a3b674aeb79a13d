#include "provisioner/fleet/launcher.h"

namespace ps::provisioner {

std::string_view ProcessRoleName(ProcessRole role) {
  switch (role) {
    case ProcessRole::kServer:
      return "server";
    case ProcessRole::kWorker:
      return "worker";
  }
  return "unknown";
}

}  // namespace ps::provisioner
