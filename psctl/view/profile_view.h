#pragma once

#include <string>

#include "ps/proto/files/profile.h"

namespace ps::psctl {

std::string RenderProfile(const proto::JobProfile& profile);

}  // namespace ps::psctl
