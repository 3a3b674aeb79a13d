#pragma once

/* libspotps: a program of yours as a worker of a spotps job (worker.program in the job file).
 *
 *   spotps_worker* w;
 *   spotps_open(SPOTPS_ABI, &w);                       // SPOTPS_NO_JOB: train by yourself
 *   spotps_declare(w, "weight", shape, 2, SPOTPS_GRADIENT, 0, 1, weight);
 *   spotps_samples(w, 60000, 0);
 *   while ((r = spotps_next(w, 200, &task)) != SPOTPS_END)
 *     if (r == SPOTPS_TASK) {                          // read spotps_values, write spotps_gradient
 *       ... spotps_finish(w, loss_sum, correct, 0);
 *     }
 *   spotps_close(w);
 *
 * The library connects from a thread of its own, with which the program shares nothing: heartbeats,
 * pushes, pulls and notices go on while the program computes.
 *
 * Threads: each worker is used by one thread at a time; spotps_notice may be called by any. A child
 * of fork can't use its parent's worker: every call there returns SPOTPS_ERROR.
 * Signals: SIGTERM is taken as a notice, from the first spotps_next until the worker's job is over
 * or it has left; afterwards, and in children of fork, it does what it did before. No other is
 * touched.
 * Ownership: texts and pointers that are passed are copied, or read until the call returns, except
 * where it says so. What is returned lives as long as it says.
 * Errors: SPOTPS_ERROR, and spotps_error says in one sentence what, where, and what to do. Nothing
 * is thrown, and the process is not ended, but for misuse that the comments name as "requires". A
 * call with a null worker is an error.
 * Units: a sample is one row of the data set; losses are sums over samples; times milliseconds.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPOTPS_API __attribute__((visibility("default")))

/* Grows when anything here changes. A library takes programs that were made for any version from
 * SPOTPS_ABI_LEAST to SPOTPS_ABI: later ones of these have more functions, and change none. */
#define SPOTPS_ABI 4
#define SPOTPS_ABI_LEAST 2

typedef struct spotps_worker spotps_worker;

enum {
  SPOTPS_ERROR = -1,
  SPOTPS_OK = 0,
  SPOTPS_TASK = 1,   /* spotps_next: there is one */
  SPOTPS_WAIT = 2,   /* spotps_next: none within the time */
  SPOTPS_END = 3,    /* spotps_next: the job is over, or this worker has left: spotps_error */
  SPOTPS_NO_JOB = 4, /* spotps_open: nothing in the environment says where a job is */
  SPOTPS_DESCRIBED =
      5, /* spotps_next: the program has told what it trains, and is to exit with 0 */
};

/* What the servers do with what is pushed to a tensor. */
enum {
  SPOTPS_GRADIENT = 0, /* a gradient, to which they apply the job's optimizer */
  /* An observation x, such as a running mean: value += rate * (x - value). At a rate of 1, one that
   * is what the task has begun with does not travel, and moves nothing. */
  SPOTPS_AVERAGE = 1,
};

enum { SPOTPS_TRAIN = 0, SPOTPS_EVALUATE = 1 };

/* How an element of spotps_kept is stored, as safetensors calls it. BOOL: a byte, 0 or 1. */
enum {
  SPOTPS_F64 = 0,
  SPOTPS_F32 = 1,
  SPOTPS_F16 = 2,
  SPOTPS_BF16 = 3,
  SPOTPS_I64 = 4,
  SPOTPS_I32 = 5,
  SPOTPS_I16 = 6,
  SPOTPS_I8 = 7,
  SPOTPS_U64 = 8,
  SPOTPS_U32 = 9,
  SPOTPS_U16 = 10,
  SPOTPS_U8 = 11,
  SPOTPS_BOOL = 12
};

typedef struct {
  int32_t kind;   /* SPOTPS_TRAIN, SPOTPS_EVALUATE */
  uint32_t epoch; /* from 0 */
  uint64_t step;  /* of this worker, from 1; train */
  /* Samples [begin, end): places in the epoch's order (spotps_order), or numbers of test samples.
   */
  uint64_t begin;
  uint64_t end;
  uint32_t minibatch;    /* train: of so many samples, the last one of fewer */
  uint32_t local_steps;  /* train, is_local: minibatches, at most */
  uint64_t samples_done; /* of the whole job, about, when it begins: for schedules */
  /* train: not 0: train on the minibatches by yourself, one or more, then push what the values at
   * the start are more than those at the end. */
  int32_t is_local;
} spotps_task;

/* SPOTPS_ABI of the library. */
SPOTPS_API int32_t spotps_abi(void);

/* A worker of the job that the environment names: SPOTPS_WORKER, which ps_worker sets, or
 * SPOTPS_DESCRIBE. `abi`: SPOTPS_ABI. Connects to nobody yet. Returns SPOTPS_OK, SPOTPS_NO_JOB
 * (then *worker is null), SPOTPS_ERROR (then too; spotps_error(NULL)). */
SPOTPS_API int32_t spotps_open(int32_t abi, spotps_worker** worker);

/* The last error of this worker, or of this thread's last spotps_open or other call with null when
 * it is null; after SPOTPS_END why it ended, empty when the job was done. Lives until the next
 * call. */
SPOTPS_API const char* spotps_error(const spotps_worker* worker);

/* The next tensor of the model, f32, dense, row-major, with its first values. Tensors are numbered
 * from 0. Every worker of the job declares the same ones in the same order. `rate`: of
 * SPOTPS_AVERAGE, above 0 to 1, else 0. `decays`: the optimizer's weight decay is for it. `values`
 * is read until the first spotps_next returns. */
SPOTPS_API int32_t spotps_declare(
    spotps_worker* worker,
    const char* name,
    const int64_t* shape,
    int32_t dimensions,
    int32_t rule,
    float rate,
    int32_t decays,
    const float* values);

/* A tensor that nobody trains, f32, dense, row-major: it never travels, and the run's model file
 * has it with the values of the process that psctl asks. Every worker of the job has the same ones
 * by itself. `values` is read until the first spotps_next returns. */
SPOTPS_API int32_t spotps_frozen(
    spotps_worker* worker,
    const char* name,
    const int64_t* shape,
    int32_t dimensions,
    const float* values);

/* A tensor of any type for the run's model file alone, dense, row-major, with the bytes of the
 * process that psctl asks. Sizes may be 0. Nothing of it travels. `is_counter`: not 0: a model file
 * to begin with may have other values (else it is refused). `is_compared`: not 0: every worker of
 * the job has the same bytes by itself, and one that has others is refused, as for spotps_frozen;
 * 0: each may have its own. `values` is read until the first spotps_next returns; a process that
 * psctl doesn't ask (without SPOTPS_DESCRIBE in its environment) reads it only if it is compared,
 * and may else pass null. Since version 3. */
SPOTPS_API int32_t spotps_kept(
    spotps_worker* worker,
    const char* name,
    int32_t type,
    const int64_t* shape,
    int32_t dimensions,
    int32_t is_counter,
    int32_t is_compared,
    const void* values);

/* Another name of the tensor `of`, which is declared, frozen or kept already: the run's model file
 * has it by both, and a file to begin with may have it by either. Since version 3. */
SPOTPS_API int32_t spotps_alias(spotps_worker* worker, const char* name, const char* of);

/* How many samples there are to train on, and to test with (0: nothing is evaluated). */
SPOTPS_API int32_t spotps_samples(spotps_worker* worker, uint64_t train, uint64_t test);

/* What the job file's `optimizer` would be for the program's own: for a job that has none. JSON. */
SPOTPS_API int32_t spotps_optimizer(spotps_worker* worker, const char* json);

/* How many minibatches the program wants to train on by itself between two pushes
 * (train.local_steps), where the job doesn't say: 1 or more. */
SPOTPS_API int32_t spotps_local_steps(spotps_worker* worker, uint32_t steps);

/* How many samples a step of the program's loop has (train.minibatch), where it is made for so
 * many: a job with another number is refused; 0: what the job says. Since version 4. */
SPOTPS_API int32_t spotps_minibatch(spotps_worker* worker, uint32_t samples);

/* What it computes on, for people: "cuda:0". */
SPOTPS_API int32_t spotps_device(spotps_worker* worker, const char* name);

/* Waits for a task, at most `timeout_ms`. The first call connects, or describes. A task stays in
 * hand until spotps_finish. Requires: none is in hand. Returns SPOTPS_TASK, _WAIT, _END, _DESCRIBED
 * or _ERROR. */
SPOTPS_API int32_t spotps_next(spotps_worker* worker, int32_t timeout_ms, spotps_task* task);

/* The task's values of a tensor, all its elements; they stay as they are until spotps_finish. No
 * copy is made. Null without a task. */
SPOTPS_API const float* spotps_values(const spotps_worker* worker, uint32_t tensor);

/* Where to write what is pushed: the gradient of the mean loss over the task's samples, the
 * observation, or with local steps the difference. It begins with any values. To write until
 * spotps_ready or spotps_finish. No copy is made. Null without a train task. */
SPOTPS_API float* spotps_gradient(spotps_worker* worker, uint32_t tensor);

/* The tensor's gradient is final and may travel while others are computed. Optional. */
SPOTPS_API int32_t spotps_ready(spotps_worker* worker, uint32_t tensor);

/* With local steps: another minibatch of `samples` is done, and more of the task are to come.
 * Returns SPOTPS_OK, or SPOTPS_END when the task had better end here (finish it with the samples
 * that are done): this machine is taken back. */
SPOTPS_API int32_t spotps_local_step(spotps_worker* worker, uint64_t samples);

/* The task is done. `samples`: of how many of its samples, the first ones; 0: all. */
SPOTPS_API int32_t
spotps_finish(spotps_worker* worker, double loss_sum, uint64_t correct, uint64_t samples);

/* Which training samples are at places [begin, end) of the epoch's order: `out` gets end - begin
 * numbers below data.train_samples of the job, at most what spotps_samples said. All workers get
 * the same. */
SPOTPS_API int32_t spotps_order(
    const spotps_worker* worker, uint32_t epoch, uint64_t begin, uint64_t end, uint64_t* out);

/* The job as JSON, as `psctl train --print-config` shows it. Valid from the first task on, as are
 * the next two; null before. Lives until the next call of it. */
SPOTPS_API const char* spotps_job(spotps_worker* worker);
/* What the job file says that this worker computes on (workers[].device). */
SPOTPS_API const char* spotps_job_device(spotps_worker* worker);
/* Its seat, and how many threads it is to compute with. */
SPOTPS_API int32_t spotps_seat(spotps_worker* worker, uint32_t* seat, uint32_t* threads);

/* A figure of the training for people to look at, besides the loss: psctl top and status, metrics
 * and TensorBoard show the mean over the workers, and each worker's is the mean of what it has told
 * since its last heartbeat. `name`: 1 to 64 bytes; at most 16 of them. A value that is NaN or
 * infinite is left out. Valid from the first spotps_next on; before, and without a job, nothing
 * happens. */
SPOTPS_API int32_t spotps_figure(spotps_worker* worker, const char* name, double value);

/* A line for the worker's log. */
SPOTPS_API int32_t spotps_log(spotps_worker* worker, const char* event, const char* text);

/* 1: the worker was told to go (drain, notice, scale): it finishes what it has. Thread: any. */
SPOTPS_API int32_t spotps_notice(const spotps_worker* worker);

/* Leaves before the job is over: the task in hand is dropped, its samples are others'. `why`: one
 * sentence. Waits for at most `timeout_ms`. */
SPOTPS_API int32_t spotps_leave(spotps_worker* worker, const char* why, int32_t timeout_ms);

/* The program can't go on, or ends though the job does not: a failure, and no machine that is taken
 * back. The task in hand is others'. `why`: one sentence, of 16 KiB at most. Waits for at most
 * `timeout_ms`. Since version 4. */
SPOTPS_API int32_t spotps_fail(spotps_worker* worker, const char* why, int32_t timeout_ms);

/* Ends the connection at once and frees everything; null is fine. In a child of fork it frees
 * nothing. Whoever is still a member leaves first, with spotps_leave
 * or spotps_fail. */
SPOTPS_API void spotps_close(spotps_worker* worker);

#ifdef __cplusplus
}
#endif
