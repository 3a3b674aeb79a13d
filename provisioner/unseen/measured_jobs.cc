#include "provisioner/unseen/measured_jobs.h"

namespace ps::provisioner {
namespace {

constexpr const char* kJobDevices[] = {"K80", "M60", "P100", "T4", "V100"};

struct JobRow {
  const char* model;
  int minibatch;
  double seconds[5];  // by kJobDevices; 0: not measured
};

// Seconds of a step; of spotDNN's, of a sample.
// - Gavel: github stanford-futuredata/gavel at c4fa400, scheduler/simulation_throughputs.json, jobs
//   alone on one device (MIT). Its Recommendation is slower on a V100 than on a P100.
// - CM-DARE: tests/data/cmdare/step_times.csv (Apache-2.0).
// - spotDNN: configs/profiles/resnet110_cifar100_spotdnn.json (MIT).
constexpr JobRow kJobRows[] = {
    {"Gavel A3C", 0, {0.2908, 0, 0.17601, 0, 0.13936}},
    {"Gavel CycleGAN", 0, {1.9811, 0, 0.4162, 0, 0.22593}},
    {"Gavel LM", 5, {0.039238, 0, 0.011016, 0, 0.0091603}},
    {"Gavel LM", 10, {0.042027, 0, 0.012973, 0, 0.012247}},
    {"Gavel LM", 20, {0.058335, 0, 0.01719, 0, 0.015446}},
    {"Gavel LM", 40, {0.086959, 0, 0.027959, 0, 0.022106}},
    {"Gavel LM", 80, {0.16517, 0, 0.047265, 0, 0.035411}},
    {"Gavel Recommendation", 512, {0.030433, 0, 0.020457, 0, 0.042886}},
    {"Gavel Recommendation", 1024, {0.049875, 0, 0.032526, 0, 0.075287}},
    {"Gavel Recommendation", 2048, {0.095774, 0, 0.060253, 0, 0.13388}},
    {"Gavel Recommendation", 4096, {0.18867, 0, 0.1124, 0, 0.25601}},
    {"Gavel Recommendation", 8192, {0.37054, 0, 0.18023, 0, 0.35193}},
    {"Gavel ResNet-18", 16, {0.20854, 0, 0.027879, 0, 0.030909}},
    {"Gavel ResNet-18", 32, {0.13936, 0, 0.027913, 0, 0.033392}},
    {"Gavel ResNet-18", 64, {0.1418, 0, 0.044833, 0, 0.041505}},
    {"Gavel ResNet-18", 128, {0.55355, 0, 0.085649, 0, 0.055571}},
    {"Gavel ResNet-18", 256, {1.1292, 0, 0.12949, 0, 0.097085}},
    {"Gavel ResNet-50", 16, {0.43468, 0, 0.11046, 0, 0.087749}},
    {"Gavel ResNet-50", 32, {0.80869, 0, 0.20457, 0, 0.12841}},
    {"Gavel ResNet-50", 64, {1.6154, 0, 0.38176, 0, 0.22754}},
    {"Gavel ResNet-50", 128, {2.88, 0, 0.63117, 0, 0.40052}},
    {"Gavel Transformer", 16, {0.1829, 0, 0.10485, 0, 0.090383}},
    {"Gavel Transformer", 32, {0.28511, 0, 0.12708, 0, 0.094154}},
    {"Gavel Transformer", 64, {0.5707, 0, 0.19639, 0, 0.11604}},
    {"Gavel Transformer", 128, {1.0188, 0, 0.32536, 0, 0.18362}},
    {"Gavel Transformer", 256, {2.1818, 0, 0.59606, 0, 0.6269}},
    {"CM-DARE ResNet-15", 0, {0.1058, 0, 0.0406, 0, 0}},
    {"CM-DARE shake16", 0, {0.2321, 0, 0.1292, 0, 0}},
    {"CM-DARE custom1", 0, {0.1317, 0, 0.0582, 0, 0}},
    {"CM-DARE custom2", 0, {0.155, 0, 0.0689, 0, 0}},
    {"CM-DARE custom3", 0, {0.2038, 0, 0.0859, 0, 0}},
    {"CM-DARE ResNet-32", 0, {0.2179, 0, 0.0826, 0, 0}},
    {"CM-DARE custom9", 0, {0.2551, 0, 0.0926, 0, 0}},
    {"CM-DARE custom4", 0, {0.2912, 0, 0.1186, 0, 0}},
    {"CM-DARE shakesmall", 0, {0.3915, 0, 0.145, 0, 0}},
    {"CM-DARE custom5", 0, {0.3483, 0, 0.1404, 0, 0}},
    {"CM-DARE custom6", 0, {0.4475, 0, 0.191, 0, 0}},
    {"CM-DARE custom10", 0, {0.4908, 0, 0.1778, 0, 0}},
    {"CM-DARE custom7", 0, {0.5612, 0, 0.2363, 0, 0}},
    {"CM-DARE shake48", 0, {0.6087, 0, 0.236, 0, 0}},
    {"CM-DARE custom8", 0, {0.6583, 0, 0.2732, 0, 0}},
    {"CM-DARE shakemid", 0, {0.7883, 0, 0.3136, 0, 0}},
    {"CM-DARE shakemid-32d", 0, {0.989, 0, 0.3545, 0, 0}},
    {"CM-DARE shake80", 0, {1.2042, 0, 0.4163, 0, 0}},
    {"CM-DARE shakebig", 0, {1.4059, 0, 0.4927, 0, 0}},
    {"CM-DARE shakesmall-32d", 0, {0.4746, 0, 0.1688, 0, 0}},
    {"spotDNN ResNet-110", 0, {0.0036064, 0.0016393, 0, 0.0011729, 0.00037008}}};

}  // namespace

const std::vector<MeasuredJob>& PublishedJobs() {
  static const std::vector<MeasuredJob> jobs = [] {
    std::vector<MeasuredJob> made;
    for (const JobRow& row : kJobRows) {
      MeasuredJob job = {row.model, row.minibatch, {}};
      for (size_t i = 0; i < std::size(kJobDevices); ++i) {
        if (row.seconds[i] > 0) {
          job.times.push_back({*FiguresOf(kJobDevices[i], 0), row.seconds[i]});
        }
      }
      made.push_back(std::move(job));
    }
    return made;
  }();
  return jobs;
}

}  // namespace ps::provisioner
