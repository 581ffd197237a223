import"./c.LXR6C3L7.js";import"./c.I2YF5GO7.js";
