#pragma once

#include <string_view>

#include "provisioner/fleet/kubernetes/pod_text.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// Whether the cluster would take a Pod like `plan` and its Secret, and let its agent watch, read
/// and delete them: asked by kubectl, the creations with dryRun, so that nothing is made. `section`
/// is the job's: "launch", "servers". Each question has `limit`. Errors: kUnavailable, with what to
/// do.
Status CheckPods(
    PodPlan plan,
    const proto::KubernetesConfig& kubernetes,
    std::string_view section,
    Duration limit);

}  // namespace ps::provisioner
