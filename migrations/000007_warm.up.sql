-- Live segments of all organizations, newest first: the order in which queriers fetch the indexes of their share.
CREATE INDEX segments_newest ON segments (max_time DESC, id DESC) WHERE state = 'live';
