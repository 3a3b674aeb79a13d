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

}  // namespace ps::psctl
