#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ps/base/status.h"
#include "worker/data/load_progress.h"
#include "worker/data/samples.h"
#include "worker/use/model_card.h"

namespace ps::worker {

/// Samples that a trained model is used on, as they enter it: by the mean, deviation and classes of
/// its own training, whatever else lies in the folder.
struct Inputs {
  std::unique_ptr<const Samples> samples;  // labels are 0 where there are none
  uint64_t count = 0;
  bool has_labels = false;
  std::vector<std::string> names = {};  // of samples that are files of their own
};

enum class LabelUse : uint8_t {
  kNeeded,   // none is an error
  kIgnored,  // they may be missing, and are not read
};

/// Opens `path`, in the format of the model's job:
///
///   format     a folder's                                      a file of its own
///   idx        t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte  images
///   cifar10    test_batch.bin                                  likewise
///   cifar100   test.bin                                        likewise
///   npy        test-inputs*.npy, test-labels*.npy              inputs
///   csv, tsv   test*.csv, test*.tsv                            rows
///   pictures   test/CLASS/ and so on; CLASS/; for kIgnored any    a picture
///   text       *.txt, of which the last data.test_share        all of it, in samples of a context
///
/// `part` names another part of a folder than its tests, as data.validation does: val/CLASS/,
/// val*.csv, val-inputs*.npy, val.txt or the texts in val/. Empty: the tests.
/// Tables are matched by the names of their columns, in any order. Labels of a file of its own are
/// those within it: of tables, CIFAR and text. Errors: kNotFound, kIo; kCorruption with file and
/// place; kInvalidArgument, data of another shape than the model's, or without labels that are
/// needed; kCancelled by `progress`, if any.
Result<Inputs> OpenInputs(
    const ModelCard& card,
    const std::string& path,
    LabelUse use,
    LoadProgress* progress = nullptr,
    const std::string& part = "");

}  // namespace ps::worker
