#pragma once

#include "kernels/backend.h"

namespace ps::kernels {

/// As Stream::MakePictures.
void MakePictures(const PictureArgs& args);

}  // namespace ps::kernels
