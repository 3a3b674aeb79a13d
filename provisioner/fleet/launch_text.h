#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ps::provisioner {

// The texts of a job's `launch` section. Pure.

/// `text` with {name}, {role} and {index} filled in for, e.g., role "worker" and index 3: worker3,
/// worker, 3. Other braces stay.
std::string FillLaunchText(std::string_view text, std::string_view role, uint32_t index);

/// The words of a command prefix, filled in.
std::vector<std::string> LaunchWords(
    std::string_view prefix, std::string_view role, uint32_t index);

}  // namespace ps::provisioner
