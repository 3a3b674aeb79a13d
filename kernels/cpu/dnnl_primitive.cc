#include "kernels/cpu/dnnl_primitive.h"

#include <string>

#include "ps/base/check.h"

namespace ps::kernels {

const dnnl::engine& CpuEngine() {
  static const dnnl::engine kEngine(dnnl::engine::kind::cpu, 0);
  return kEngine;
}

namespace {

/// A CPU stream runs a primitive inside the call; one a thread, so that none is shared.
dnnl::stream& ThisThreadsStream() {
  thread_local dnnl::stream stream(CpuEngine());
  return stream;
}

}  // namespace

Desc ImageDesc(int64_t n, int64_t c, int64_t h, int64_t w) {
  return PlainDesc({n, c, h, w}, Tag::nhwc);
}

Desc PlainDesc(const dnnl::memory::dims& dims, Tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}

dnnl::primitive_attr UserScratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Primitive::Primitive(
    dnnl::primitive primitive,
    const Desc& scratch,
    Workspace* workspace,
    std::initializer_list<Slot> slots)
    : primitive_(std::move(primitive)), workspace_(workspace) {
  workspace->Reserve(scratch.get_size());
  arguments_.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratch, CpuEngine(), DNNL_MEMORY_NONE));
  for (const auto& [index, desc] : slots) {
    if (!desc.is_zero()) {
      arguments_.emplace(index, dnnl::memory(desc, CpuEngine(), DNNL_MEMORY_NONE));
    }
  }
}

Primitive Primitive::MakeReorder(const Desc& from, const Desc& to, Workspace* workspace) {
  const dnnl::reorder::primitive_desc pd(CpuEngine(), from, CpuEngine(), to, UserScratch());
  return {
      dnnl::reorder(pd),
      pd.scratchpad_desc(),
      workspace,
      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

void Primitive::Run(std::initializer_list<Binding> bindings) {
  arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(workspace_->data());
  for (const auto& [index, memory] : bindings) {
    if (memory == nullptr) {
      continue;
    }
    const auto slot = arguments_.find(index);
    PS_CHECK(slot != arguments_.end()) << "no slot " << index;
    slot->second.set_data_handle(const_cast<void*>(memory));
  }
  const Status status =
      CatchDnnl("run", [&] { primitive_.execute(ThisThreadsStream(), arguments_); });
  PS_CHECK(status.ok()) << status;  // what can fail, failed when the primitive was made
}

Relayout Relayout::ToPrimitive(const Desc& canonical, const Desc& wanted, Workspace* workspace) {
  Relayout result;
  if (canonical != wanted) {
    result.memory_ = Buffer(wanted.get_size());
    result.reorder_ = Primitive::MakeReorder(canonical, wanted, workspace);
  }
  return result;
}

Relayout Relayout::FromPrimitive(
    const Desc& produced, const Desc& canonical, Workspace* workspace) {
  Relayout result;
  if (canonical != produced) {
    result.memory_ = Buffer(produced.get_size());
    result.reorder_ = Primitive::MakeReorder(produced, canonical, workspace);
  }
  return result;
}

const float* Relayout::Load(const float* source) {
  if (!reorder_) {
    return source;
  }
  reorder_.Run({{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, memory_.data()}});
  return memory_.floats().data();
}

float* Relayout::Stage(float* target) {
  return reorder_ ? memory_.floats().data() : target;
}

void Relayout::Store(float* target) {
  if (reorder_) {
    reorder_.Run({{DNNL_ARG_FROM, memory_.data()}, {DNNL_ARG_TO, target}});
  }
}

Status FromDnnl(const char* op, const dnnl::error& error) {
  const std::string message = std::string(op) + ": oneDNN says: " + error.what();
  if (error.status == dnnl_unimplemented) {
    return Status::Unsupported(message);
  }
  return Status::InvalidArgument(message);
}

}  // namespace ps::kernels
