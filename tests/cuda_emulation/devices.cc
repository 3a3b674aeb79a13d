// Errors and devices of CUDA's runtime.

#include <cstring>
#include <utility>

#include "tests/cuda_emulation/machine.h"

using ps::cuda_emulation::current_device;
using ps::cuda_emulation::HasDevice;
using ps::cuda_emulation::Machine;
using ps::cuda_emulation::Report;
using ps::cuda_emulation::SharedBytesMax;
using ps::cuda_emulation::Sticky;
using ps::cuda_emulation::TheMachine;
using ps::cuda_emulation::Turn;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorPeerAccessAlreadyEnabled:
      return "peer access is already enabled";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unrecognized error code";
}

cudaError_t cudaGetLastError() {
  const Turn turn;
  return std::exchange(TheMachine().last_error, cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int* version) {
  const Turn turn;
  *version = TheMachine().driver_version;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const Turn turn;
  const Machine& machine = TheMachine();
  if (machine.driver_version < CUDART_VERSION) {
    return Report(cudaErrorInsufficientDriver);
  }
  *count = machine.count;
  return machine.count > 0 ? cudaSuccess : Report(cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Turn turn;
  if (!HasDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  *properties = {};
  std::strncpy(properties->name, "emulated", sizeof(properties->name) - 1);
  properties->totalGlobalMem = TheMachine().on(device).memory_bytes;
  properties->major = TheMachine().compute_major;
  properties->minor = TheMachine().compute_minor;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const Turn turn;
  if (!HasDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  if (attribute != cudaDevAttrComputeCapabilityMajor) {
    return Report(cudaErrorInvalidValue);
  }
  *value = TheMachine().compute_major;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  const Turn turn;
  if (!HasDevice(device)) {
    return Report(cudaErrorInvalidDevice);
  }
  current_device = device;
  return Sticky(device);
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const Turn turn;
  Machine& machine = TheMachine();
  const bool is_possible =
      kernel != nullptr && attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value >= 0 &&
      static_cast<size_t>(value) <= SharedBytesMax(machine.compute_major, machine.compute_minor);
  if (!is_possible) {
    return Report(cudaErrorInvalidValue);
  }
  machine.on(current_device).shared_bytes_max[kernel] = static_cast<size_t>(value);
  return Sticky(current_device);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const Turn turn;
  if (!HasDevice(device) || !HasDevice(peer)) {
    return Report(cudaErrorInvalidDevice);
  }
  *can = device == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  const Turn turn;
  Machine& machine = TheMachine();
  if (!HasDevice(peer) || peer == current_device) {
    return Report(cudaErrorInvalidDevice);
  }
  const bool is_new = machine.peers.emplace(current_device, peer).second;
  return is_new ? Sticky(current_device) : Report(cudaErrorPeerAccessAlreadyEnabled);
}
