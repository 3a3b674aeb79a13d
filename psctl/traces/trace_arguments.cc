#include "psctl/traces/trace_arguments.h"

namespace ps::psctl {

Argument AddTrace(
    const std::string& names,
    const TraceArguments& to,
    Arguments* arguments,
    const std::string& help) {
  const Argument trace = arguments->Add(names, to.path, help);
  arguments->Add("--unit", to.unit, "Of the trace's times: ms, s or h; ms if absent");
  arguments->Add(
      "--gaps", to.gaps, "Times that a polled trace lacks: hold, none or cut; refused if absent");
  return trace;
}

void AddTracePart(ReplayScale* part, Arguments* arguments) {
  arguments->Add("--from-hour", &part->from_hours, "Hour of the trace to begin at; 0");
  arguments->Add("--hours", &part->hours, "Hours of the trace; all of it if absent");
  const Argument nodes = arguments->Add(
      "--nodes",
      &part->nodes_max,
      "Scale counts so that the largest is this; as they are if absent");
  arguments->RefuseZero(nodes, &part->nodes_max, NodesWanted());
}

}  // namespace ps::psctl
