"""Your own tensors and modules in ten lines."""

import torch
from torch import nn

import colonnade as cn

torch.manual_seed(0)
x_bank, x_telco = torch.randn(2000, 8), torch.randn(2000, 5)
y = (x_bank[:, 0] + x_telco[:, 0] > 0).long()
job = cn.Job(
    parties={"bank": cn.Party(role="active"), "telco": cn.Party()},
    method={"name": "fedbcd", "updates": 5},
    train=cn.Train(epochs=5, batch_size=64, metric="auc", target=0.95),
    network=cn.Network(link=cn.Link(latency="50ms", bandwidth="300mbit")),
)
data = cn.vertical({"bank": x_bank, "telco": x_telco}, y)
run = cn.simulate(job, data, models={"bank": nn.Linear(8, 4), "telco": nn.Linear(5, 4)})
print(run.summary()["metric"], f"in {run.time_s:.1f} s of virtual time")
