module klamm/bench/group_crowd

go 1.26.0
