"""HAMi's names: resources, annotations, reasons."""

from __future__ import annotations

RESOURCE_COUNT = "nvidia.com/gpu"
RESOURCE_MEMORY = "nvidia.com/gpumem"
RESOURCE_PERCENTAGE = "nvidia.com/gpumem-percentage"
RESOURCE_CORES = "nvidia.com/gpucores"

USE_UUID = "nvidia.com/use-gpuuuid"
NO_USE_UUID = "nvidia.com/nouse-gpuuuid"
USE_TYPE = "nvidia.com/use-gputype"
NO_USE_TYPE = "nvidia.com/nouse-gputype"
MODE = "nvidia.com/vgpu-mode"
NUMA_BIND = "nvidia.com/numa-bind"
NODE_POLICY = "hami.io/node-scheduler-policy"
CARD_POLICY = "hami.io/gpu-scheduler-policy"
SCORING_WEIGHTS = "hami.io/device-scoring-weights"

REGISTER = "hami.io/node-nvidia-register"
PAIR_SCORES = "hami.io/node-nvidia-score"
HANDSHAKE = "hami.io/node-handshake"
CORDON = "hami.io/device-cordon"
NODE_LOCK = "hami.io/mutex.lock"

ASSIGNED_NODE = "hami.io/vgpu-node"
ASSIGNED_TIME = "hami.io/vgpu-time"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"
BIND_PHASE = "hami.io/bind-phase"
BIND_TIME = "hami.io/bind-time"

VENDOR = "NVIDIA"
HAMI_CORE, MIG = "hami-core", "mig"

TYPE_MISMATCH = "CardTypeMismatch"
UUID_MISMATCH = "CardUuidMismatch"
SLOTS_EXHAUSTED = "CardTimeSlicingExhausted"
CORES_EXHAUSTED = "CardComputeUnitsExhausted"
TOO_LITTLE_MEMORY = "CardInsufficientMemory"
TOO_FEW_CORES = "CardInsufficientCore"
NOT_HEALTHY = "CardNotHealth"
CORDONED = "CardCordoned"
NUMA_NOT_FIT = "NumaNotFit"
EXCLUSIVE_CONFLICT = "ExclusiveDeviceAllocateConflict"
MIG_INFEASIBLE = "CardMigTopologyInfeasible"
TOO_FEW_CARDS = "NodeInsufficientDevice"
ONLY_SOME_CARDS = "AllocatedCardsInsufficientRequest"
QUOTA_NOT_FIT = "ResourceQuotaNotFit"
NODE_UNREGISTERED = "node unregistered"

TRUE_WORDS = frozenset({"1", "t", "T", "TRUE", "true", "True"})
