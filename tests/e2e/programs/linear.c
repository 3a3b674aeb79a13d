/* A worker in C, as worker/script/spotps.h has it: y = 3 a - 2 b + 0.5 by least squares, on samples
 * that follow from their number. With an argument the model has so many weights more, which nothing
 * depends on. Exit code 0: the job is done, or this worker was told to go. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/script/spotps.h"

enum { SAMPLES = 4000, TESTS = 500, WEIGHTS_MAX = 64 };

static double fraction(double x) {
  return x - (double)(int64_t)x;
}

/* Of a sample: its input, and what is to be learnt. */
static double target_of(uint64_t sample, float input[2]) {
  input[0] = (float)(fraction((double)sample * 0.6180339887) - 0.5);
  input[1] = (float)(fraction((double)sample * 0.7548776662) - 0.5);
  return 3.0 * input[0] - 2.0 * input[1] + 0.5;
}

static double error_of(const float* weight, const float* bias, uint64_t sample, float input[2]) {
  const double target = target_of(sample, input);
  return weight[0] * input[0] + weight[1] * input[1] + bias[0] - target;
}

static int fail(const spotps_worker* worker) {
  fprintf(stderr, "linear: %s\n", spotps_error(worker));
  return 1;
}

/* Writes the gradient; returns the sum of the losses, or a negative number. */
static double train(spotps_worker* worker, const spotps_task* task, int64_t weights) {
  const float* const weight = spotps_values(worker, 0);
  const float* const bias = spotps_values(worker, 1);
  float* const to_weight = spotps_gradient(worker, 0);
  float* const to_bias = spotps_gradient(worker, 1);
  const uint64_t count = task->end - task->begin;
  uint64_t* const order = malloc(count * sizeof(*order));
  double loss = 0, sum[3] = {0, 0, 0};
  if (order == NULL || spotps_order(worker, task->epoch, task->begin, task->end, order) != SPOTPS_OK) {
    free(order);
    return -1;
  }
  for (uint64_t i = 0; i < count; ++i) {
    float input[2];
    const double error = error_of(weight, bias, order[i], input);
    loss += error * error / 2;
    sum[0] += error * input[0];
    sum[1] += error * input[1];
    sum[2] += error;
  }
  free(order);
  for (int64_t i = 0; i < weights; ++i) {
    to_weight[i] = i < 2 ? (float)(sum[i] / (double)count) : 0;
  }
  if (spotps_ready(worker, 0) != SPOTPS_OK) {
    return -1;
  }
  to_bias[0] = (float)(sum[2] / (double)count);
  return loss;
}

static double test(spotps_worker* worker, const spotps_task* task, uint64_t* correct) {
  double loss = 0;
  for (uint64_t sample = task->begin; sample < task->end; ++sample) {
    float input[2];
    const double error = error_of(
        spotps_values(worker, 0), spotps_values(worker, 1), SAMPLES + sample, input);
    loss += error * error / 2;
    *correct += error * error < 1e-4;
  }
  return loss;
}

int main(int argc, char** argv) {
  spotps_worker* worker = NULL;
  spotps_task task;
  float first[WEIGHTS_MAX] = {0}, bias = 0;
  const int64_t weights = 2 + (argc > 1 ? atoll(argv[1]) : 0), one = 1;
  int32_t result = spotps_open(SPOTPS_ABI, &worker);
  if (result != SPOTPS_OK || weights > WEIGHTS_MAX) {
    fprintf(stderr, "linear: %s\n", result == SPOTPS_NO_JOB ? "no job" : spotps_error(NULL));
    return 2;
  }
  if (spotps_declare(worker, "weight", &weights, 1, SPOTPS_GRADIENT, 0, 1, first) != SPOTPS_OK ||
      spotps_declare(worker, "bias", &one, 1, SPOTPS_GRADIENT, 0, 0, &bias) != SPOTPS_OK ||
      spotps_samples(worker, SAMPLES, TESTS) != SPOTPS_OK) {
    return fail(worker);
  }
  do {
    uint64_t correct = 0;
    double loss = 0;
    result = spotps_next(worker, 200, &task);
    if (result != SPOTPS_TASK) {
      continue;
    }
    loss = task.kind == SPOTPS_TRAIN ? train(worker, &task, weights) : test(worker, &task, &correct);
    if (loss < 0 || spotps_finish(worker, loss, correct, 0) != SPOTPS_OK) {
      result = SPOTPS_ERROR;
    }
  } while (result == SPOTPS_TASK || result == SPOTPS_WAIT);
  if (result == SPOTPS_ERROR) {
    return fail(worker);
  }
  spotps_close(worker);
  return 0;
}
