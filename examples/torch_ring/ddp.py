"""One rank of a distributed training by PyTorch; torch_ring starts it."""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo")  # finds the others by the environment that the ring has set
rank, size = dist.get_rank(), dist.get_world_size()

# Every rank has its own samples of one line, y = 3x - 2.
torch.manual_seed(1 + rank)
x = torch.randn(256, 1)
y = 3 * x - 2

torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(steps):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()  # averages the gradients of all ranks
    optimizer.step()

# All ranks have the same model, whatever their own samples were.
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
others = [torch.empty_like(weights) for _ in range(size)]
dist.all_gather(others, weights)
assert all(torch.equal(weights, o) for o in others), others
ranks = torch.tensor([1 << rank])
dist.all_reduce(ranks)
assert ranks.item() == (1 << size) - 1, ranks
if rank == 0:
    print(f"{size} ranks of PyTorch {torch.__version__.split('+')[0]} found y = {weights[0]:.2f}x {weights[1]:+.2f}")
dist.destroy_process_group()
