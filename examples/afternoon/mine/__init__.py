"""A package of your own: a method with a policy, an encoding and a model, none of them built in."""
