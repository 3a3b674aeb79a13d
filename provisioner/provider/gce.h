#pragma once

#include <memory>
#include <string>

#include "provisioner/provider/gce_client.h"
#include "provisioner/provider/provider.h"
#include "ps/base/status.h"
#include "ps/http/http.h"
#include "ps/process/environment.h"

namespace ps::provisioner {

/// Google's Compute Engine. A machine is called by its token, so its id is "ZONE/TOKEN". Pools are
/// asked one after another. A type is "n1-standard-4", or "n1-standard-4+nvidia-tesla-t4:1" with
/// accelerators. Of a setup, `subnet` is a subnetwork (else the default network), `security_group`
/// network tags, `role` the e-mail of a service account, `key_name` an ssh key as the metadata has
/// it ("USER:ssh-ed25519 AAAA..."), `image` "projects/P/global/images/family/F". After `run_max`
/// the provider deletes the machine, and a spot machine as soon as it takes it back.
///
/// It tells no prices: the list of Google's billing has them by CPU, GiB and device, not by type.
/// Requires: `project` is not empty.
std::unique_ptr<Provider> MakeGceProvider(GceOptions options);

/// With the token that other programs find in this environment. An empty project is that of
/// GOOGLE_CLOUD_PROJECT, the key's file or the machine. Errors: those of FindGoogleToken.
Result<std::unique_ptr<Provider>> OpenGceProvider(
    const Environment& environment,
    const std::string& project,
    const std::string& endpoint,
    IsCancelled is_cancelled);

}  // namespace ps::provisioner
